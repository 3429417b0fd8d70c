#!/bin/sh
# Runs every test of this folder and says how each went.
count=0
failed=0
for test in tests/test_*.sh; do
  count=$((count + 1))
  if sh "$test"; then
    echo "ok $count - $test"
  else
    echo "not ok $count - $test"
    failed=1
  fi
done
echo "1..$count"
exit $failed
