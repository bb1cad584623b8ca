-- One page of jobs from one index, in its order. Looks at a bounded number of jobs, however few of them match.
-- arguments: ARGV[1] clock offset, [2] index: 'ready', 'laned', 'scheduled', 'running', … or 't' for a tag, [3] queue or
--            tag, [4] most, [5] looked at, [6] 'up' or 'down', [7] cursor score ('': from the start), [8] cursor member,
--            [9] queue to match ('': any), [10] name to match, a GLOB ('': any), [11] state to match (0: any),
--            [12] created from, [13] created before (0: no bound)
-- returns:   {cursor score, cursor member ('' at the end), {id + record without payload beyond 1 KiB, ...}}
-- refusals:  none
-- flags: no-writes
-- uses: keys, rank, record, lanes, glob
local key = queue_key(ARGV[2], ARGV[3])
local most, looked_at, is_up = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == 'up'
local queue, name, state = ARGV[9], ARGV[10], tonumber(ARGV[11])
local created_from, created_before = tonumber(ARGV[12]), tonumber(ARGV[13])
local holds_places = ARGV[2] == 'ready' or ARGV[2] == 'laned'

local function read_page()
  if is_up then
    local from = ARGV[7] == '' and 0 or rank_after(key, tonumber(ARGV[7]), ARGV[8])
    return redis.call('ZRANGE', key, from, from + looked_at - 1, 'WITHSCORES')
  end
  local size = redis.call('ZCARD', key)
  local before = size
  if ARGV[7] ~= '' then
    local score = tonumber(ARGV[7])
    before = rank_after(key, score, ARGV[8])
    -- The entry itself was on the last page, unless it is gone or stands elsewhere by now.
    if tonumber(redis.call('ZSCORE', key, ARGV[8]) or nil) == score then before = before - 1 end
  end
  if before <= 0 then return {} end
  return redis.call('ZREVRANGE', key, size - before, size - before + looked_at - 1, 'WITHSCORES')
end

local function matches(r)
  return (queue == '' or r.queue == queue) and (state == 0 or r.state == state)
    and (name == '' or glob(name, r.name))
    and r.created_at >= created_from and (created_before == 0 or r.created_at < created_before)
end

local page = read_page()
local found, cursor_score, cursor_member = {}, '', ''
for i = 1, #page, 2 do
  local id = holds_places and id_in_place(page[i]) or page[i]
  local r = load(id)
  if r and matches(r) then table.insert(found, r.id .. r.raw) end
  local is_last = i + 1 == #page
  if #found == most or is_last then
    if not is_last or #page == 2 * looked_at then cursor_member, cursor_score = page[i], page[i + 1] end
    break
  end
end
return {cursor_score, cursor_member, found}
