# For the benchmarks beside it: servers on processor 0, load on processor 1, interleaved rounds that
# count only while the machine's speed stays what it is.
build=${build:-build/release}
work=$(mktemp -d)
servers=
trap 'kill $servers 2>/dev/null; rm -rf "$work"' EXIT
tick=$(getconf CLK_TCK)

calibrate() { taskset -c "${1:-1}" "$build/bench/bench_calibrate"; }

agree() { # calibration, calibration: within a tenth, but for the loads from memory, which vary by themselves
    echo "$1 $2" | awk '{ exit !($1 / $5 < 1.1 && $5 / $1 < 1.1 && $2 / $6 < 1.1 && $6 / $2 < 1.1) }'
}

# Runs a round until the calibrations before and after it agree, at most five times. A round appends
# to files in $work/round, which are then appended to those of the same name in $work/all.
steady() { # command...
    local before after try
    mkdir -p "$work/all"
    for try in 1 2 3 4 5; do
        rm -rf "$work/round"; mkdir "$work/round"
        before=$(calibrate)
        "$@"
        after=$(calibrate)
        agree "$before" "$after" && break
        [ $try = 5 ] || echo "   (again: the machine's speed changed from $before to $after)" >&2
    done
    echo "$before" >>"$work/calibrations"
    for file in "$work/round"/*; do cat "$file" >>"$work/all/${file##*/}"; done
}

free_port() {
    port=$((10000 + RANDOM % 20000))
    while grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X $port) " /proc/net/tcp /proc/net/tcp6; do
        port=$((10000 + RANDOM % 20000))
    done
}

start() { # name, program with @ for its port...: sets port_NAME and pid_NAME; false if it does not serve
    local name=$1 pid tries=0; shift
    free_port
    COIR_LOG=none COIR_WORKERS=${workers:-1} taskset -c "${processors:-0}" "${@//@/$port}" >"$work/$name.out" 2>&1 &
    pid=$!
    servers="$servers $pid"
    eval "port_$name=$port pid_$name=$pid"
    until curl -s -o /dev/null "http://127.0.0.1:$port/hello"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] && kill -0 $pid 2>/dev/null || { echo "== $name does not serve here: $(tail -1 "$work/$name.out")"; return 1; }
        sleep 0.05
    done
}

cpu_ticks() { # process: its own, and its children's
    local pid total=0
    for pid in $1 $(pgrep -P "$1"); do
        total=$((total + $(awk '{ print $14 + $15 }' "/proc/$pid/stat")))
    done
    echo $total
}

median() { sort -n | awk '{ a[NR] = $1 } END { if (NR) print a[int((NR + 1) / 2)] }'; }

spread() { sort -n | awk '{ a[NR] = $1 } END { if (NR) printf "%.3f (%.3f to %.3f)", a[int((NR + 1) / 2)], a[1], a[NR] }'; }
