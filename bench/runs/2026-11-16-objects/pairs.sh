# Processor seconds of one run and of four shards one after the other, both at the same time, one thread each.
A=crates/cli/assets/demo
C="--model $A/resnet20.fashion_mnist.safetensors --calibration $A/calibration.json --data out/folder --limit 8000 --json --progress never --threads 1"
echo "pair,whole,shards"
for pair in 1 2 3 4 5; do
  /usr/bin/time -f "%U %S" -o whole.time ./flipcast estimate $C > /dev/null 2>&1 &
  rm -f shards.time
  for i in 1 2 3 4; do /usr/bin/time -f "%U %S" -a -o shards.time ./flipcast estimate $C --shard $i/4 --part pair-$i.part > /dev/null 2>&1; done
  wait
  echo "$pair,$(awk '{s += $1 + $2} END {print s}' whole.time),$(awk '{s += $1 + $2} END {print s}' shards.time)"
done
