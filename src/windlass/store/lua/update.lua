-- The holder of a lease reports progress, or writes back the payload.
-- arguments: ARGV[1] clock offset; then per job: id, token, progress in millionths ('': as it is),
--            '1' when a payload follows, payload codec (flag bits), payload
-- returns:   per job {revision, 1 when it is asked to stop} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, record, reports, events
local function update(id, token, progress, has_payload, codec, payload)
  local r, refused = held(id, token)
  if not r then return refused end
  if progress ~= '' then r.progress = tonumber(progress) end
  if has_payload == '1' then
    r.flags = bit.bor(bit.band(r.flags, bit.bnot(3)), tonumber(codec))
    r.revision = r.revision + 1
    rewrite(r, payload)
  else
    save(r)
  end
  if progress ~= '' then announce(EVENT.progress, r, '') end
  return {r.revision, has(r, 'cancel_requested') and 1 or 0}
end

local answers = {}
for i = 2, #ARGV, 6 do
  table.insert(answers, update(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]))
end
flush()
return answers
