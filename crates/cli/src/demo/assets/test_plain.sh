# Without a discount the price is price times quantity.
test "$(sh cart.sh 250 4 0)" = 1000
