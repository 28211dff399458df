# For the scripts beside it: counting, a bound on the time of every step, and a server to talk to.
passed=0 failed=0
name=$(basename "$0")
build=${1:-build/gcc}
work=$(mktemp -d)
server=
limit=${limit:-120} # seconds that a step may take

# All that a process has started and that still runs, but for one and its own.
descendants() { # process, except
    local child
    for child in $(pgrep -P "$1"); do
        [ "$child" = "$2" ] || { descendants "$child" "$2"; echo "$child"; }
    done
}

# The guard kills what a step has started and has not ended in time, so that the step fails and
# shows what it was; and the script itself if it does not go on then.
guard() {
    local own=$BASHPID since seconds what late
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        IFS='|' read -r since seconds what 2>/dev/null <"$work/step" || continue
        late=$((SECONDS - since - seconds))
        [ $late -ge 0 ] || continue
        local running=($(descendants $$ $own))
        if [ $late -le 5 ]; then
            {
                echo "not ended after $seconds s: $what"
                ps -ww -o pid,stat,wchan:20,args -p "$(IFS=,; echo "${running[*]}")"
            } >>"$work/late"
            kill -KILL "${running[@]}" 2>/dev/null
        else
            echo "FAILED $name: $what: the script does not go on"
            kill -KILL $$ "${running[@]}" 2>/dev/null
            rm -rf "$work"
        fi
    done
}

step() { # what it is: from now on it has $limit seconds
    began=$SECONDS
    echo "$began|$limit|$*" >"$work/step"
}

clean_up() {
    rm -f "$work/step"
    kill -KILL $(descendants $$) 2>/dev/null
    rm -rf "$work"
}

step start
guard 2>/dev/null & disown
trap clean_up EXIT

# Until the command succeeds; not beyond the step's time, nor when the server has ended.
await() { # command...
    until "$@"; do
        if [ -n "$server" ] && ! kill -0 "$server" 2>/dev/null; then
            echo "the server has ended before: $*"
            return 1
        fi
        [ $((SECONDS - began)) -lt $((limit - 5)) ] || { echo "not within $limit s: $*"; return 1; }
        sleep 0.02
    done
}

free_port() { # sets $port: one that is not in use, and that the system chooses for nobody
    port=$((10000 + RANDOM % 20000))
    while grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X $port) " /proc/net/{tcp,tcp6,udp,udp6}; do
        port=$((10000 + RANDOM % 20000))
    done
}

stop_server() { # gently; the server's exit status
    [ -n "$server" ] || return 0
    kill -TERM "$server" 2>/dev/null
    wait "$server"
    local status=$?
    server=
    return $status
}

ok() { # description, command...: it succeeds, within $limit seconds
    local what=$1; shift
    step "$what"
    if "$@" >"$work/out" 2>&1 && [ ! -e "$work/late" ]; then
        passed=$((passed + 1))
        step "what follows $what"
        return 0
    fi
    failed=$((failed + 1))
    echo "FAILED $name: $what"
    { echo "--- $what"; tail -60 "$work/out"; [ ! -e "$work/late" ] || cat "$work/late"; } >&2
    rm -f "$work/late"
    step "what follows $what"
    return 1
}

says_where() { grep -q serving "$1" 2>/dev/null; } # file
start_server() { # environment words...: starts the showcase on a free port, sets $port and $url
    rm -f "$work/server.out" # that of the server before
    env "$@" "$build/showcase/coir-showcase" 0 >"$work/server.out" 2>"$work/server.err" &
    server=$!
    await says_where "$work/server.out" >&2 || cat "$work/server.err" >&2
    url=$(sed -n 's/.*serving on \(http:[^ ]*\).*/\1/p' "$work/server.out")
    port=${url##*:}
}

stat_of() { # a counter without coir_, of all workers; nothing if the server does not answer
    curl -s -m 20 "$url/metrics" | awk -v name="coir_$1" '{ split($1, part, "{") } part[1] == name { sum += $NF; found = 1 } END { if (found) print sum }'
}
open_files() { ls "/proc/$server/fd" | wc -l; }
cpu_ticks() { awk '{print $14 + $15}' "/proc/$server/stat"; }
finish() {
    if [ -e "$work/late" ]; then
        failed=$((failed + 1))
        echo "FAILED $name: $(head -1 "$work/late")"
        cat "$work/late" >&2
    fi
    echo "$name: $passed passed, $failed failed"
    [ $failed = 0 ]
}
