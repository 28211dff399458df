# For the scripts beside it: counting, and a server to talk to.
passed=0 failed=0
name=$(basename "$0")
build=${1:-build/gcc}
work=$(mktemp -d)
server=

stop_server() { # gently; the server's exit status
    [ -n "$server" ] || return 0
    kill -TERM "$server" 2>/dev/null
    wait "$server"
    local status=$?
    server=
    return $status
}
trap 'kill -9 $server 2>/dev/null; rm -rf "$work"' EXIT

ok() { # description, command...
    local what=$1; shift
    if "$@" >"$work/out" 2>&1; then passed=$((passed + 1)); return 0; fi
    failed=$((failed + 1))
    echo "FAILED $name: $what"
    { echo "--- $what"; tail -60 "$work/out"; } >&2
    return 1
}

start_server() { # environment words...: starts the showcase on a free port, sets $port and $url
    env "$@" "$build/showcase/coir-showcase" 0 >"$work/server.out" 2>"$work/server.err" &
    server=$!
    while ! grep -q serving "$work/server.out" 2>/dev/null; do
        kill -0 $server 2>/dev/null || { echo "the server did not start" >&2; cat "$work/server.err" >&2; break; }
    done
    url=$(sed -n 's/.*serving on \(http:[^ ]*\).*/\1/p' "$work/server.out")
    port=${url##*:}
}

stat_of() { curl -s "$url/stats" | sed -n "s/^$1 //p"; }
open_files() { ls "/proc/$server/fd" | wc -l; }
cpu_ticks() { awk '{print $14 + $15}' "/proc/$server/stat"; }
finish() { echo "$name: $passed passed, $failed failed"; [ $failed = 0 ]; }
