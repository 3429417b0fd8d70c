# Nothing in the cart costs nothing.
test "$(sh cart.sh 250 0 10)" = 0
