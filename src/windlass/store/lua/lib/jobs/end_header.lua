-- Header of an ended record: the fields that an end sets. Every end is written here.
local STATE = require('constants').STATE
local clock = require 'clock'
local record = require 'jobs.record'
local script = require 'script'

local end_header = {}

local COMPLETE = 1000000 -- progress of a finished job, in millionths

-- Set the fields of an end.
function end_header.set(job, state)
  job.state, job.ended_at, job.deadline = state, clock.now_ms, 0
end

-- A job that finishes has made all its progress.
function end_header.complete(job) job.progress = COMPLETE end

-- The fast path joins the bytes of a finished record instead. It writes the same fields: a header that is read into a
-- table and packed again costs 11 % more per job (finish and take of 50).
local NO_DEADLINE = '\0\0\0\0\0\0'
local pack, sub
script.once(function() pack, sub = struct.pack, string.sub end)

-- Return the header of a finished job.
function end_header.pack_finished(raw, flags)
  local state, ended_at = pack('>BBI4', record.FORMAT, STATE.finished, flags), pack('>I6', clock.now_ms)
  return state .. sub(raw, 7, 34) .. ended_at .. sub(raw, 41, 46) .. NO_DEADLINE .. sub(raw, 53, 76)
    .. pack('>I4', COMPLETE) .. sub(raw, 81, record.HEADER_BYTES)
end

return end_header
