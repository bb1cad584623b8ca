-- Report the progress of leased jobs, set their notes, or replace their payloads.
-- arguments: ARGV[1] clock offset; then per job: id, token, progress in millionths ('': unchanged), '1' when a note
--            follows, note, '1' when a payload follows, payload codec (flag bits), payload
-- returns:   per job {revision, 1 when its cancel was requested} or a refusal
-- refusals:  unknown_job, already_ended, stale_lease, wrong_state
-- flags: allow-oom
-- uses: batch, record, note, reports, events
local function update(id, token, progress, has_note, note, has_payload, codec, payload)
  local r, refused = held(id, token)
  if not r then return refused end
  if progress ~= '' then r.progress = tonumber(progress) end
  if has_note == '1' then set_note(r, note) end
  if has_payload == '1' then
    r.flags = bit.bor(bit.band(r.flags, bit.bnot(3)), tonumber(codec))
    r.revision = r.revision + 1
    rewrite(r, payload)
  else
    save(r)
  end
  if progress ~= '' or has_note == '1' then announce(EVENT.progress, r, note_of(r)) end
  return {r.revision, has(r, 'cancel_requested') and 1 or 0}
end

local answers = {}
for i = 2, #ARGV, 8 do table.insert(answers, update(ARGV[i], tonumber(ARGV[i + 1]), unpack(ARGV, i + 2, i + 7))) end
flush()
return answers
