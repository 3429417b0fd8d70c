# Ten percent off makes it cheaper, not dearer.
test "$(sh cart.sh 250 4 10)" = 900
