#!/usr/bin/env bash
# Receive speed and lag of a replica that follows a recorded log: `lab source` serves it, `slipstream replica` follows it into a
# folder of its own. The load goes first and is not in the figures: the replica starts anew behind it.
#
#   demo/served.sh LOAD RUN [--rate TPS | --speed MB/s | --pace F]      LOAD, RUN: binlog or index files
#   SLIPSTREAM_BIN, SERVED_REPLICA (more options of the replica, as "--memory 512M --workers 2")
#
# Without a pace the source sends as fast as the replica receives: its MB/s are the receive speed, and lag is what replay is
# behind receiving. With one, lag is what a source at that rate would see: from the moment a transaction is sent until a new
# reader sees it, one clock. Cleans up after itself.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
slipstream=${SLIPSTREAM_BIN:-$here/../target/release/slipstream}
[ $# -ge 2 ] || { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
load=$1 run=$2
shift 2
exec </dev/null

work=$(mktemp -d "${TMPDIR:-/tmp}/slipstream-served-XXXXXX")
source_pid= replica_pid=
unset MYSQL_PWD
cleanup() {
    local status=$?
    trap '' INT TERM
    set +e
    for pid in $replica_pid $source_pid; do kill -KILL "$pid" 2>/dev/null; done
    wait 2>/dev/null
    if [ "$status" -ne 0 ]; then tail -5 "$work"/*.log "$work"/*.out >&2; fi
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

die() { echo "served: $*" >&2; exit 1; }
status_json() { "$slipstream" status --no-defaults --data "$work/data" --json 2>/dev/null; }
# A number of the report, by section, sub-section (or -) and key.
number() {
    awk -v section="$1" -v sub_section="$2" -v key="$3" '
        /^  "[a-z_]+": \{/ { s = $1; gsub(/[":]/, "", s); u = "-"; next }
        /^    "[a-z_0-9]+": \{/ { u = $1; gsub(/[":]/, "", u); next }
        /^    \}/ { u = "-"; next }
        { k = $1; gsub(/[":]/, "", k); v = $2; gsub(/[",]/, "", v)
          if (s == section && u == sub_section && k == key) print v }'
}
cpu_s() { awk '{ sub(/.*\) /, ""); print ($12 + $13) / 100 }' "/proc/$1/stat"; }

# serve NAME ARGS…: starts a source; sets address and transactions.
serve() {
    local out=$work/$1.out
    shift
    "$slipstream" lab source --listen 127.0.0.1:0 "$@" >"$out" 2>&1 &
    source_pid=$!
    until grep -q '^listening on' "$out"; do
        kill -0 "$source_pid" 2>/dev/null || { cat "$out" >&2; die "the source did not start"; }
        sleep 0.05
    done
    read -r address transactions < <(sed -n 's/^listening on \([^ ]*\): \([0-9]*\) transactions.*/\1 \2/p' "$out")
}

# follow SECTION KEY OPTIONS…: follows until this number of the report says that all transactions are in.
follow() {
    local section=$1 key=$2
    shift 2
    # shellcheck disable=SC2086
    "$slipstream" replica --no-defaults --source "mysql://replica@$address" --data "$work/data" --on-stop exit ${SERVED_REPLICA:-} "$@" \
        >>"$work/replica.log" 2>&1 &
    replica_pid=$!
    until [ "$(status_json | number "$section" - "$key")" = "$transactions" ]; do
        kill -0 "$replica_pid" 2>/dev/null || die "the replica ended by itself"
        kill -0 "$source_pid" 2>/dev/null || die "the source ended by itself"
        sleep 0.2
    done
}

finish() {
    "$slipstream" stop --no-defaults --data "$work/data"
    wait "$replica_pid"
    kill -TERM "$source_pid"
    wait "$source_pid" || die "the source ended with $?"
    replica_pid= source_pid=
}

serve load "$load"
# Durable, so that nothing of the load is replayed again: its lag would be the figure.
follow store last_cut --cut-interval 1s
finish
serve run --load "$load" "$@" "$run"
follow position watermark
status=$(status_json)
lag() { printf '%s' "$status" | number lag overall "$1"; }
sed -n 's/^connection.*: sent the log: /sent: /p' "$work/run.out"
awk -v n="$(lag transactions)" -v a="$(lag p50_us)" -v b="$(lag p99_us)" -v c="$(lag p999_us)" -v d="$(lag max_us)" 'BEGIN {
    printf "lag of %d transactions: p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms\n", n, a / 1e3, b / 1e3, c / 1e3, d / 1e3 }'
awk -v s="$(cpu_s "$source_pid")" -v r="$(cpu_s "$replica_pid")" -v m="$(printf '%s' "$status" | number memory - rss_peak_bytes)" 'BEGIN {
    printf "CPU: source %.2f s, replica %.2f s; replica peak %.0f MB\n", s, r, m / 1e6 }'
printf '%s cores, load %s; slipstream lab source %s\n' "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)" "${*:-as fast as possible}"
finish
