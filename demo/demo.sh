#!/usr/bin/env bash
# The main job on this machine, nothing mocked: a real MySQL primary that already holds data and has purged its log, a replica
# that copies it and follows, TPC-C meanwhile and reads as fresh as the primary's, kill -9 in the middle of it, and a row-by-row comparison at the end. Exit 0 only if every table was equal. Takes under four minutes after the build; cleans up after itself.
#
#   DEMO_SECONDS (60), DEMO_WAREHOUSES (2), DEMO_TERMINALS (4), DEMO_MEMORY (128M), SLIPSTREAM_BIN
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
testbed=$here/../testbed/mysql
slipstream=${SLIPSTREAM_BIN:-$here/../target/release/slipstream}
seconds=${DEMO_SECONDS:-60}
warehouses=${DEMO_WAREHOUSES:-2}
terminals=${DEMO_TERMINALS:-4}
memory=${DEMO_MEMORY:-128M}
exec </dev/null

work=$(mktemp -d "${TMPDIR:-/tmp}/slipstream-demo-XXXXXX")
export SLIPSTREAM_TESTBED_RUN=$work/mysql
data=$work/replica
replica_pid= load_pid= watch_pid=

cleanup() {
    local status=$?
    trap '' INT TERM
    set +e
    for pid in $watch_pid $load_pid $replica_pid; do kill -TERM "$pid" 2>/dev/null; done
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
die() { echo "demo: $*" >&2; exit 1; }
alive() { kill -0 "$replica_pid" 2>/dev/null || die "the replica ended by itself"; }
executed_on_source() { "$testbed" sql demo -N -B -r -e 'SELECT @@GLOBAL.gtid_executed' | tr -d '\n '; }
executed_on_replica() { "$slipstream" status --data "$data" --json 2>/dev/null | tr -d '\n ' | sed 's/\\n//g'; }

[ -x "$slipstream" ] || die "no $slipstream: run make build first"

step "a MySQL primary"
"$testbed" start demo
source_url=$("$testbed" url demo)
admin_url=$("$testbed" url demo root)

step "the primary gets $warehouses TPC-C warehouses, and purges its log: it does not reach back any more"
"$slipstream" lab tpcc prepare --server "$admin_url" --warehouses "$warehouses" || die "loading failed"
"$testbed" sql demo -e "FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY;
    GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl"
"$slipstream" check --source "$source_url" || die "the source cannot be followed"

# In the run folder, so that the demo takes no port that something else has.
socket=$work/replica.sock
start_replica() {
    "$slipstream" replica --source "$source_url" --data "$data" --on-stop exit --memory "$memory" --cut-interval 5s \
        --port 0 --socket "$socket" >>"$work/replica.log" 2>&1 &
    replica_pid=$!
}
state() { "$slipstream" status --data "$data" --json 2>/dev/null | tr -d '\n ' | sed -n 's/.*"replay":{[^}]*"state":"\([a-z_]*\)".*/\1/p'; }

# A client of the replica reads at GLOBAL what one of the primary has just read. Payments only ever add to w_ytd.
point='SELECT w_ytd FROM tpcc.warehouse WHERE w_id = 1'
read_here() { MYSQL_PWD=demo "$testbed" run mysql --no-defaults --socket="$socket" --user=demo -N -B -e "$point"; }
reads=0
read_at_global() { # SECONDS
    local until=$((SECONDS + $1)) there here
    while [ "$SECONDS" -lt "$until" ]; do
        there=$("$testbed" sql demo -N -B -e "$point")
        here=$(read_here) ||
            die "the replica's port did not answer"
        [ "${here/./}" -ge "${there/./}" ] || die "read $here at GLOBAL after the primary had said $there"
        reads=$((reads + 1))
        sleep 0.2
    done
}

step "a replica of $memory: slipstream replica --source $source_url --data $data --memory $memory"
begun=$SECONDS
start_replica
until [ -n "$(state)" ] && [ "$(state)" != copying ]; do
    alive
    "$slipstream" status --data "$data" --json 2>/dev/null | sed -n 's/.*"detail": *"\(copy[^"]*\)".*/\1/p' || true
    sleep 1
done
echo "copied and following after $((SECONDS - begun)) s; its log:"
{ grep -F '[Copy]' "$work/replica.log" || true; } | sed 's/^[^[]*/  /'

step "an account at the replica: slipstream account add demo --may read --read-consistency global --data $data"
echo demo | "$slipstream" account add demo --may read --read-consistency global --data "$data"

step "TPC-C on the primary for $seconds s, $terminals terminals; the replica, once a second"
"$slipstream" status --data "$data" --watch &
watch_pid=$!
"$slipstream" lab tpcc run --server "$admin_url" --warehouses "$warehouses" --terminals "$terminals" \
    --duration "${seconds}s" >"$work/tpcc.txt" 2>&1 &
load_pid=$!
read_at_global "$((seconds / 2))"
step "kill -9, in the middle of the load, and a new start"
alive
kill -KILL "$replica_pid"
wait "$replica_pid" 2>/dev/null || true
killed=$(date +%s%N)
start_replica
# Its status answers before its readers do.
until read_here >/dev/null 2>&1; do
    alive
    sleep 0.02
done
echo "clients read again after $((($(date +%s%N) - killed) / 1000000)) ms"
{ grep -F 'kept store' "$work/replica.log" || true; } | tail -1 | sed 's/^[^[]*/  /'
read_at_global "$((seconds / 4))"
wait "$load_pid" || { cat "$work/tpcc.txt"; die "the load failed"; }
load_pid=
goal=$(executed_on_source)
caught_up_after=$SECONDS
deadline=$((SECONDS + 60))
until executed_on_replica | grep -qF -- "$goal"; do
    alive
    [ "$SECONDS" -lt "$deadline" ] || die "the replica did not reach $goal within 60 s"
    sleep 0.2
done
caught_up_after=$((SECONDS - caught_up_after))
kill "$watch_pid" 2>/dev/null || true
wait "$watch_pid" 2>/dev/null || true
watch_pid=

step "the load, as its terminals saw it"
cat "$work/tpcc.txt"

step "the replica"
"$slipstream" status --data "$data" | tee "$work/status.txt"

# As root: verify's snapshot is then taken under a lock of milliseconds; the replication account may not lock.
step "every table, row by row: slipstream verify --data $data --source $admin_url"
verified=0
"$slipstream" verify --data "$data" --source "$admin_url" || verified=$?
alive

step "summary"
tables=$("$testbed" sql demo -N -B -e "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'tpcc'")
echo "primary     $("$testbed" version)"
echo "load        TPC-C, $warehouses warehouses, $terminals terminals, $seconds s"
grep -E 'tpmC, ' "$work/tpcc.txt" | sed 's/^/            /'
sed -n -E 's/^Replayed +/replica     /p; s/^Lag since start +/lag         /p' "$work/status.txt"
echo "            caught up ${caught_up_after} s after the load's end (whole seconds)"
echo "reads       $reads at GLOBAL through the replica's port during the load, none older than the primary's before it"
echo "gtids       $goal"
case $verified in
    0) echo "verify      all $tables tables equal" ;;
    *) echo "verify      FAILED (exit $verified)" ;;
esac
cat <<'USAGE'

Your own primary (MySQL 8.0 or later; what is missing is named with the statement that fixes it):
  CREATE USER slip@'%' IDENTIFIED BY '…';
  GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, RELOAD, LOCK TABLES, XA_RECOVER_ADMIN,
    BACKUP_ADMIN, PROCESS, SHOW VIEW, TRIGGER, EVENT ON *.* TO slip@'%';
  slipstream check   --source mysql://slip@HOST:3306
  slipstream replica --source mysql://slip@HOST:3306 --data DIR      # password: MYSQL_PWD, an option file or a prompt
To read from it:
  slipstream account add app --may read --data DIR                   # asks for the account's password
  mysql -h 127.0.0.1 -P 3307 -u app -p
  SET slipstream_read_consistency = GLOBAL;                          # as fresh as the primary; EVENTUAL by default
USAGE
exit "$verified"
