-- Byte order of strings. Lua compares strings by the engine's locale, but the engine orders members by their bytes.

local order = {}

function order.is_before(a, b)
  for i = 1, #a do
    local x, y = string.byte(a, i, i), string.byte(b, i, i)
    if x ~= y then return y ~= nil and x < y end
  end
  return #a < #b
end

return order
