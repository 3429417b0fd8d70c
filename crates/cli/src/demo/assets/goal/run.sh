#!/bin/sh
# The tests of the calculation.
test -f add.sh || { echo "add.sh is missing"; exit 1; }
test "$(sh add.sh 1 2)" = 3 || { echo "1 + 2 is not 3"; exit 1; }
echo "1 test passed"
