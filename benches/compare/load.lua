-- The load of `wrk`: a code to another phone with each request, or a message through `sendsms`.
-- The environment says which: KEY and FIRST (the first phone), or SENDSMS.
local next_phone = tonumber(os.getenv("FIRST") or "0")
local sendsms = os.getenv("SENDSMS")
local refused = 0

function request()
  next_phone = next_phone + 1
  local phone = string.format("1555%08d", next_phone)
  if sendsms then
    return wrk.format("GET", sendsms .. "&to=%2B" .. phone)
  end
  return wrk.format("POST", "/v1/otp/send", {
    ["Authorization"] = "Bearer " .. os.getenv("KEY"),
    ["Content-Type"] = "application/json",
  }, '{"phone": "+' .. phone .. '"}')
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format("RESULT %d %d %d %d %d", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
