-- Tags of a job, and their indexes. Besides the tags of its producer, a record has a tag for each entry of its payload
-- in the index (\1 + entry), and for each payload field that its producer indexes (\2 + field; it finds nothing). A
-- producer's tag has no control characters. records/job_tags.py has the same form.
local batch = require 'batch'
local keys = require 'keys'

local job_tags = {}

-- Visit the key of each index that has the job.
function job_tags.each_key(job, visit)
  if job.tags == '' then return end
  for tag in string.gmatch(job.tags, '[^%z]+') do
    if string.byte(tag) ~= 2 then visit(keys.tag(tag)) end
  end
end

function job_tags.enter(job, created_at)
  job_tags.each_key(job, function(key) batch.z_add(key, created_at, job.id) end)
end
function job_tags.leave(job)
  job_tags.each_key(job, function(key) batch.z_remove(key, job.id) end)
end

-- Give a stored job other tags. The caller must rewrite the record afterwards.
function job_tags.change(job, tags)
  if tags == job.tags then return end
  job_tags.leave(job)
  job.tags = tags
  job_tags.enter(job, job.created_at)
end

function job_tags.has_fields(tags) return string.find(tags, '\2', 1, true) ~= nil end

function job_tags.each_field(tags, visit)
  for field in string.gmatch(tags, '\2([^%z]+)') do visit(field) end
end

-- Return whether a new payload may change the tags: the payload is indexed now, or its producer indexes fields.
function job_tags.depend_on_payload(job) return string.find(job.tags, '[\1\2]') ~= nil end

return job_tags
