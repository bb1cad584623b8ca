-- SQLite's GLOB: `*`, `?`, `[a-z]`, `[^…]`, over UTF-8 characters, case-sensitive, whole string.
-- Two pointers with one backtracking point: linear in practice, at worst pattern times text.
local order = require 'order'

local glob = {}

local function char_at(text, at)
  local byte = string.byte(text, at)
  if not byte then return nil, at end
  local size = byte < 0xC0 and 1 or byte < 0xE0 and 2 or byte < 0xF0 and 3 or 4
  return string.sub(text, at, at + size - 1), at + size
end

-- Return whether the character is in the class that starts behind `[` at `at`, and the position behind the class
-- (nil: no `]`).
local function in_class(pattern, at, char)
  local negated = false
  local c, after = char_at(pattern, at)
  if c == '^' then
    negated = true
    c, after = char_at(pattern, after)
  end
  local seen, previous = false, nil
  if c == ']' then
    seen = char == ']'
    c, after = char_at(pattern, after)
  end
  while c and c ~= ']' do
    local following = char_at(pattern, after)
    if c == '-' and following and following ~= ']' and previous then
      local last, behind = char_at(pattern, after)
      if not order.is_before(char, previous) and not order.is_before(last, char) then seen = true end
      previous = nil
      after = behind
    else
      if c == char then seen = true end
      previous = c
    end
    c, after = char_at(pattern, after)
  end
  if not c then return false, nil end
  return seen ~= negated, after
end

function glob.match(pattern, text)
  local p, t = 1, 1
  local star_p, star_t
  while true do
    local pc, p_after = char_at(pattern, p)
    local tc, t_after = char_at(text, t)
    local advanced = false
    if pc == '*' then
      star_p, star_t = p_after, t
      p = p_after
      advanced = true
    elseif not tc then
      if not pc then return true end
      return false
    elseif pc == '?' then
      p, t, advanced = p_after, t_after, true
    elseif pc == '[' then
      local inside, after = in_class(pattern, p_after, tc)
      if inside and after then p, t, advanced = after, t_after, true end
    elseif pc == tc then
      p, t, advanced = p_after, t_after, true
    end
    if not advanced then
      if not star_p then return false end
      local _, further = char_at(text, star_t)
      if star_t > #text then return false end
      star_t = further
      p, t = star_p, star_t
    end
  end
end

-- Match a pattern without `?` and `[`: its parts between stars must follow each other in the text. Plain searches are
-- about ten times faster. Bytes suffice, because no UTF-8 character is part of another.
function glob.matches_parts(parts, text)
  local first, last = parts[1], parts[#parts]
  if #parts == 1 then return text == first end
  if #text < #first + #last or string.sub(text, 1, #first) ~= first then return false end
  local at, stop = #first + 1, #text - #last
  if string.sub(text, stop + 1) ~= last then return false end
  for i = 2, #parts - 1 do
    local _, found = string.find(text, parts[i], at, true)
    if parts[i] ~= '' and (not found or found > stop) then return false end
    if parts[i] ~= '' then at = found + 1 end
  end
  return true
end

-- Return the texts before, between and behind the stars; nil if the pattern has other wildcards.
function glob.split(pattern)
  if string.find(pattern, '[%?%[]') then return nil end
  local parts = {}
  for part in string.gmatch(pattern .. '*', '([^%*]*)%*') do parts[#parts + 1] = part end
  return parts
end

function glob.literal_prefix(pattern) return string.match(pattern, '^[^%*%?%[]*') end

return glob
