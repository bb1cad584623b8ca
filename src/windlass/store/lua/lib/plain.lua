-- uses: keys, clock, batch, record, tally
-- What most jobs are: plain. A plain job has a queue, a name, a payload and a policy, and nothing that another key would
-- have to follow: no flag, lane, unique key, tag, parent, limit or expiry. While nobody follows what happens or waits at
-- its queue, it comes in, is taken and ends by a few commands that can be told beforehand. The plain ways (plain_*.lua)
-- do just these; they read first, and where anything is not plain they have changed nothing and leave the call to the
-- general way. What they do must be what the general way would have done.
local PLAIN_MOST = 1000 -- jobs of one call
local NO_POLICY_MS = '\0\0\0\0\0\0'

-- From a policy, as packed: how long its result is kept, and when it expires. True where that is not at all.
local function keeps_no_result(policy) return policy == '' or string.sub(policy, 17, 22) == NO_POLICY_MS end
local function never_expires(policy) return policy == '' or string.sub(policy, 23, 28) == NO_POLICY_MS end

local function is_set(found, field) return tonumber(found or DEFAULT[field]) > 0 end
