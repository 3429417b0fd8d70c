#!/bin/sh
# cart.sh PRICE QUANTITY PERCENT: what a customer pays, in cents, after a discount.
total=$(($1 * $2))
echo $((total + total * $3 / 100))
