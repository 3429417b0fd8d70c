#!/bin/sh
# Prints the score of the tuning.
echo "score=$(cat tuning)"
