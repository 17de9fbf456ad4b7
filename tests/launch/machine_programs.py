"""The programs of the machine on which user_data_test.py runs scripts/user-data."""

# One that counts its calls, and at the chosen one everybody who works on the boot dies.
FRAGILE = """#!/bin/sh
count=$(($(/bin/cat $CALLS 2>/dev/null || echo 0) + 1))
echo $count >$CALLS
[ $count = "$DIE_AT" ] && kill -9 -$(/usr/bin/cut -d' ' -f5 /proc/self/stat)
PATH=${PATH#*:}
exec NAME "$@"
"""
ONE_TRY = "#!/bin/sh\nkill -9 -$(/usr/bin/cut -d' ' -f5 /proc/self/stat)\n"
SLEEP = """#!/bin/sh
echo $1 >>$SPOTTER_ROOT/slept
read -r up idle <$SPOTTER_ROOT/proc/uptime
echo "$((${up%%.*} + $1)).00 $idle" >$SPOTTER_ROOT/proc/uptime
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >>$SPOTTER_ROOT/systemctl
case $1 in
  start | restart) cmp -s $SPOTTER_ROOT/etc/spotter/job.yaml $WANTED && command -v spotter ;;
  is-active) [ "$(wc -l <$SPOTTER_ROOT/slept)" -ge "$(cat $SPOTTER_ROOT/active)" ] ;;
  is-failed) [ -e $SPOTTER_ROOT/failed ] ;;
esac
"""
APT_GET = """#!/bin/sh
echo "$*" >>$SPOTTER_ROOT/apt
locked=$(cat $SPOTTER_ROOT/locked 2>/dev/null || echo 0)
if [ $locked -gt 0 ]; then
  echo $((locked - 1)) >$SPOTTER_ROOT/locked
  echo 'E: Could not get lock /var/lib/dpkg/lock-frontend' >&2
  exit 100
fi
for last; do :; done
case "$*" in *install*) [ -f "$last" ] && cp "$last" $SPOTTER_ROOT/bin/spotter ||
  { [ "$last" = spotter ] && printf '#!/bin/sh\\n' >$SPOTTER_ROOT/bin/spotter; } ;; esac
chmod -f +x $SPOTTER_ROOT/bin/spotter
exit 0
"""
