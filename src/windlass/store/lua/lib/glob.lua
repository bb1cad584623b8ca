-- uses: order
-- SQLite's GLOB: `*`, `?`, `[a-z]`, `[^…]`, over UTF-8 characters, case-sensitive, whole string.
-- Two pointers with one point to return to: linear in practice, at worst pattern times text.
local function char_at(text, at)
  local byte = string.byte(text, at)
  if not byte then return nil, at end
  local size = byte < 0xC0 and 1 or byte < 0xE0 and 2 or byte < 0xF0 and 3 or 4
  return string.sub(text, at, at + size - 1), at + size
end

-- Is the character in the class that starts behind `[` at `at`? Returns that, and where the pattern goes on (nil: no `]`).
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
      if not comes_before(char, previous) and not comes_before(last, char) then seen = true end
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

local function glob(pattern, text)
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

local function literal_prefix(pattern) return string.match(pattern, '^[^%*%?%[]*') end
