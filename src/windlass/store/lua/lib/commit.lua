-- End of a call that changed jobs: write what is pending, wake takers, trim histories.
local batch = require 'batch'
local ending = require 'jobs.ending'
local wake_takers = require 'workers.wake_takers'

local commit = {}

-- Call it once, after the last change.
function commit.run()
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
end

return commit
