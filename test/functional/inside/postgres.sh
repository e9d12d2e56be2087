#!/bin/bash
# Runs inside a sandbox: a Postgres server, and a session with an open transaction that does what it reads from a fifo.
#   postgres.sh ARCHIVE          prints "ready"; then: echo "SQL" > /tmp/sql, answers in /tmp/answers
set -e
sudo tar -xzf "$1" -C / --no-same-owner --keep-directory-symlink
bin=$(echo /usr/lib/postgresql/*/bin)
"$bin/initdb" -D /tmp/pg -A trust -E UTF8 --no-sync >/tmp/initdb.log
"$bin/pg_ctl" -D /tmp/pg -w -l /tmp/pg.log -o "-k /tmp -c jit=off -c listen_addresses=127.0.0.1" start >/dev/null
mkfifo /tmp/sql
"$bin/psql" -h 127.0.0.1 -At -d postgres -f - <>/tmp/sql >/tmp/answers 2>&1 &
echo "create table kept (n int); begin; insert into kept values (41); select 'begun ' || count(*) from kept;" >/tmp/sql
grep -q -m1 '^begun 1' < <(tail -f -n +1 /tmp/answers)
echo ready
wait
