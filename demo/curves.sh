#!/usr/bin/env bash
# Memory and disk curves of a replica under load: TPC-C at a real MySQL primary for CURVES_SECONDS, a replica with a small
# memory behind it, one line of figures every few seconds, at the end their curves, a summary and a row-by-row comparison.
# Exit 0 only if every table was equal. Cleans up after itself; what stays is the table CURVES_OUT.
#
#   CURVES_SECONDS (600), CURVES_EVERY (5), CURVES_WAREHOUSES (2), CURVES_TERMINALS (4), CURVES_MEMORY (256M),
#   CURVES_OUT (curves.tsv), SLIPSTREAM_BIN
#
# The columns: seconds since the load began; resident memory and its peak (/proc); bytes of generations and of queues; bytes of
# the tree, of the relay log, of the whole folder; bytes that compaction has yet to merge; cuts; lag of the oldest
# transaction that is not visible, µs; transactions received and not visible; write transactions visible since the start.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
testbed=$here/../testbed/mysql
slipstream=${SLIPSTREAM_BIN:-$here/../target/release/slipstream}
seconds=${CURVES_SECONDS:-600}
every=${CURVES_EVERY:-5}
warehouses=${CURVES_WAREHOUSES:-2}
terminals=${CURVES_TERMINALS:-4}
memory=${CURVES_MEMORY:-256M}
out=${CURVES_OUT:-curves.tsv}
exec </dev/null

work=$(mktemp -d "${TMPDIR:-/tmp}/slipstream-curves-XXXXXX")
export SLIPSTREAM_TESTBED_RUN=$work/mysql
data=$work/replica
replica_pid= load_pid=

cleanup() {
    local status=$?
    trap '' INT TERM
    set +e
    for pid in $load_pid $replica_pid; do kill -TERM "$pid" 2>/dev/null; done
    for _ in $(seq 50); do
        [ -n "$replica_pid" ] && kill -0 "$replica_pid" 2>/dev/null || break
        sleep 0.1
    done
    [ -z "$replica_pid" ] || kill -KILL "$replica_pid" 2>/dev/null
    "$testbed" destroy --all 2>/dev/null
    if [ "$status" -ne 0 ] && [ -s "$work/replica.log" ]; then
        echo "--- the replica's log ends:" >&2
        tail -20 "$work/replica.log" >&2
    fi
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n== %s\n' "$*"; }
die() { echo "curves: $*" >&2; exit 1; }
alive() { kill -0 "$replica_pid" 2>/dev/null || die "the replica ended by itself"; }
status_json() { "$slipstream" status --data "$data" --json 2>/dev/null; }
executed_on_source() { "$testbed" sql curves -N -B -r -e 'SELECT @@GLOBAL.gtid_executed' | tr -d '\n '; }
caught_up() { status_json | tr -d '\n ' | sed 's/\\n//g' | grep -qF -- "$1"; }

# The line of figures: `section key` pairs looked up in the report, which has one key to a line.
sample() {
    local at=$1 rss peak
    rss=$(awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$replica_pid/status")
    peak=$(awk '/^VmHWM:/ { print $2 * 1024 }' "/proc/$replica_pid/status")
    status_json | awk -v at="$at" -v rss="$rss" -v peak="$peak" '
        /^  "[a-z_]+": \{/ { section = $1; gsub(/[":]/, "", section); sub_section = ""; next }
        /^    "[a-z_0-9]+": \{/ { sub_section = $1; gsub(/[":]/, "", sub_section); next }
        /^    \}/ { sub_section = ""; next }
        { key = $1; gsub(/[":]/, "", key); value = $2; gsub(/[",]/, "", value)
          found[section "." (sub_section == "" ? "" : sub_section ".") key] = value }
        END {
            split("memory.store_bytes memory.queue_bytes store.tree_bytes disk.relay_log_bytes disk.folder_bytes " \
                  "store.compaction_debt_bytes store.cuts lag.current_us backlog.transactions rates.total.transactions", names, " ")
            line = at "\t" rss "\t" peak
            for (n = 1; n in names; n++) line = line "\t" (names[n] in found && found[names[n]] != "null" ? found[names[n]] : "-")
            print line
        }'
}

# Figures of column $1 over time as bars: $2 names them, $3 divides them.
curve() {
    awk -F '\t' -v column="$1" -v name="$2" -v by="$3" '
        NR > 1 && $column != "-" { at[++n] = $1; value[n] = $column / by; if (value[n] > most) most = value[n] }
        END {
            if (n == 0) { print name ": no figures"; exit }
            printf "\n%s (most: %.1f)\n", name, most
            steps = n < 20 ? n : 20
            for (step = 1; step <= steps; step++) {
                from = int((step - 1) * n / steps) + 1; to = int(step * n / steps); high = 0
                for (i = from; i <= to; i++) if (value[i] > high) high = value[i]
                bar = ""; for (i = 0; i < (most > 0 ? high / most * 50 : 0); i++) bar = bar "#"
                printf "%6d s %10.1f %s\n", at[to], high, bar
            }
        }' "$out"
}

[ -x "$slipstream" ] || die "no $slipstream: run make build first"

step "a MySQL primary with $warehouses TPC-C warehouses, its log purged"
"$testbed" start curves
source_url=$("$testbed" url curves)
admin_url=$("$testbed" url curves root)
"$slipstream" lab tpcc prepare --server "$admin_url" --warehouses "$warehouses" >"$work/prepare.txt" || die "loading failed"
"$testbed" sql curves -e "FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY;
    GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl"

step "a replica with --memory $memory copies it"
"$slipstream" replica --source "$source_url" --data "$data" --on-stop exit --memory "$memory" --cut-interval 10s >>"$work/replica.log" 2>&1 &
replica_pid=$!
until status_json | grep -q '"state": "caught_up"'; do
    alive
    sleep 0.2
done
sed -n 's/^[^[]*\(\[System\] \[SLIP-00002[67]\] .*\)/  \1/p' "$work/replica.log"

step "TPC-C for $seconds s, $terminals terminals; figures every $every s in $out"
"$slipstream" lab tpcc run --server "$admin_url" --warehouses "$warehouses" --terminals "$terminals" \
    --duration "${seconds}s" >"$work/tpcc.txt" 2>&1 &
load_pid=$!
printf 'seconds\trss\trss_peak\tgenerations\tqueues\ttree\trelay_log\tfolder\tcompaction_debt\tcuts\tlag_us\twaiting\ttransactions\n' >"$out"
begun=$SECONDS
while kill -0 "$load_pid" 2>/dev/null; do
    alive
    sample $((SECONDS - begun)) >>"$out"
    sleep "$every"
done
wait "$load_pid" || { cat "$work/tpcc.txt"; die "the load failed"; }
load_pid=
goal=$(executed_on_source)
deadline=$((SECONDS + 120))
until caught_up "$goal"; do
    alive
    [ "$SECONDS" -lt "$deadline" ] || die "the replica did not reach $goal within 120 s"
    sleep 0.2
done
sample $((SECONDS - begun)) >>"$out"

step "the curves"
curve 2 "resident memory, MB" 1e6
curve 6 "tree, MB" 1e6
curve 7 "relay log, MB" 1e6
curve 9 "compaction debt, MB" 1e6
curve 11 "lag, ms" 1e3

step "the replica at the end"
"$slipstream" status --data "$data"

step "every table, row by row"
verified=0
"$slipstream" verify --data "$data" --source "$admin_url" || verified=$?

step "summary"
limit=$(status_json | sed -n 's/.*"limit_bytes": \([0-9]*\).*/\1/p')
peak=$(awk '/^VmHWM:/ { print $2 * 1024 }' "/proc/$replica_pid/status")
echo "load        TPC-C, $warehouses warehouses, $terminals terminals, $seconds s at $("$testbed" version)"
grep -E 'tpmC, ' "$work/tpcc.txt" | sed 's/^/            /' || true
awk -v peak="$peak" -v limit="$limit" 'BEGIN {
    printf "memory      peak %.0f MB with verify, limit %.0f MB: %.0f %% of it\n", peak / 1e6, limit / 1e6, peak * 100 / limit }'
awk -F '\t' 'NR > 1 { n++; debt[n] = $9; tree = $6; relay = $7 > relay ? $7 : relay; cuts = $10 }
    END { from = int(n * 2 / 3) + 1
          printf "disk        tree %.0f MB at the end, relay log %.0f MB at most, %d cuts\n", tree / 1e6, relay / 1e6, cuts
          printf "compaction  debt %.0f MB at the begin of the last third, %.0f MB at its end\n", debt[from] / 1e6, debt[n] / 1e6 }' "$out"
case $verified in
    0) echo "verify      all tables equal" ;;
    *) echo "verify      FAILED (exit $verified)" ;;
esac
exit "$verified"
