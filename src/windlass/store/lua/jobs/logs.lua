-- Return the log lines that are kept with a job. Read-only.
-- arguments: ARGV[1] clock offset, [2] id
-- returns:   {entry, ...} (job_log.lua), oldest first
-- refusals:  unknown_job, already_ended (as a string)
-- flags: no-writes
-- uses: record, ending, job_log
local r = load(ARGV[2])
if not r then return missing(ARGV[2]) end
return has(r, 'has_logs') and redis.call('LRANGE', log_key(r.id), 0, -1) or {}
