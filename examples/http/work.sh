#!/bin/sh
# HTTP API with curl alone: enqueue a job, take it, run it and read its result.
# sh work.sh http://localhost:8080
set -eu
api="${1:-http://localhost:8080}/api/v1"

field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

id=$(curl -sS --fail-with-body --json '{"queue": "mail", "name": "send", "payload": {"to": "ada"}, "result_ttl_ms": 60000}' "$api/jobs" | field id)

job=$(curl -sS --fail-with-body --json '{"queues": ["mail"], "wait_ms": 10000}' "$api/take")
token=$(echo "$job" | field lease_token)

curl -sS --fail-with-body --json "{\"token\": $token, \"progress\": 0.5}" "$api/jobs/$id/progress" >/dev/null
curl -sS --fail-with-body --json "{\"token\": $token, \"result\": \"sent\"}" "$api/jobs/$id/finish" >/dev/null
curl -sS --fail-with-body "$api/jobs/$id/result?wait_ms=10000"
