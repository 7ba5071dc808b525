# Sixteen times: rates of one core and of two, then a step's fastest time before, and after with the round trip of a cache line.
for i in $(seq 16); do echo "$(./peak)"; for v in before after; do echo "  $v $(./$v cifar_resnet26 100 64 32 2 400)"; done; sleep 0.2; done
