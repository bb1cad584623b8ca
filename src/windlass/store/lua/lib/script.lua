-- One call of an operation: its arguments, and the state that files keep for the length of a call.
-- A file registers functions that reset such state. `on_begin` runs at the beginning of every call, with the root and
-- the clock offset. `on_start` runs before the general path only: most calls end on the fast path and need no more.
-- `once` runs in the first call; use it to bind library functions, which do not exist yet when the files are loaded.
-- No result depends on values that stay from call to call: the same files also run as scripts of one call.
-- An operation is a function of the list of arguments and of its first arguments by name: the argument behind the clock
-- offset is its second parameter, and so on.
local script = {}

local at_begin, at_start, at_first = {}, {}, {}
local NAMED_MAX = 20 -- arguments that are passed by name

function script.on_begin(reset) at_begin[#at_begin + 1] = reset end
function script.on_start(reset) at_start[#at_start + 1] = reset end
function script.once(bind) at_first[#at_first + 1] = bind end

-- Return the table if it is empty, else a new one. For tables that most calls leave empty.
function script.clean(table_of_call)
  if table_of_call and next(table_of_call) == nil then return table_of_call end
  return {}
end

-- Return the answers of `answer` for each item of a list of arguments: `width` arguments from `first` on, by name.
function script.map(arguments, first, width, answer)
  local answers = {}
  for i = first, #arguments, width do answers[#answers + 1] = answer(unpack(arguments, i, i + width - 1)) end
  return answers
end

-- Run an operation. `fast_path` is tried first, if there is one: it returns an answer, or nil without having changed
-- anything.
function script.run(operation, fast_path, root, arguments)
  if at_first then
    for i = 1, #at_first do at_first[i]() end
    at_first = nil
  end
  for i = 1, #at_begin do at_begin[i](root, arguments[1]) end
  if fast_path then
    local answer = fast_path(arguments, unpack(arguments, 2, NAMED_MAX))
    if answer then return answer end
  end
  for i = 1, #at_start do at_start[i]() end
  return operation(arguments, unpack(arguments, 2, NAMED_MAX))
end

return script
