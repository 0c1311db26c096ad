// examples/train/main.cpp — trains a network on ranks that compress their gradients.
//
//     train                                                  four ranks, ten codecs, three seeds: 13 s on two cores
//     train --codec 'ef(top_k(0.01)|qsgd<8>)' --plot plots   one codec; --list prints all
//     train --model convolutional --check                    fails if compressed training is below its bounds
//     train --all                                            all methods of the library, GRACE's with their memories
//     train --study                                          cross-validation, with 95 % intervals: minutes
//     train --adapt gravac --adapt accordion --plot plots    densities that controllers choose, drawn step by step
//     train --model convolutional --adapt gradiveq           convolutions by the phases of a schedule
//     train --executor cuda --steps 4 --seeds 1              one device per rank, in a build with nvcc and NCCL
//     train --data /usr/share/datasets/fashion-mnist         from Debian's package dataset-fashion-mnist
//
// Its output for digits.csv, on two cores that also ran other programs:
//
// 1437 images of 8 x 8 x 1 to train on, 360 to test
// mlp of 4810 parameters, 98.5 % of them (the weights) compressed, biases dense
// 4 ranks x 8 images, 1800 steps (40.1 epochs), learning rate 0.02, momentum 0.9, seeds 1 to 3
//
//                               payload     sent            loss      accuracy  compute  encode  exchange  decode
// codec                          B/step   B/step  ratio training       test, %       us      us        us      us
// identity                        19240    28860    1.0   0.0236 97.04 +- 0.16      6.6     0.5     105.5     0.8
// cast<bfloat16>                   9768    14652    2.0   0.0236 97.04 +- 0.16      6.8     2.0     179.7     0.7
// ef(scaled_sign)                   904     2268   12.7   0.0223 97.22 +- 0.28      7.1    30.8     183.2    18.4
// ef(top_k(0.01))                   536     1164   24.8   0.0229 97.04 +- 0.16      7.2    32.5     168.9     3.5
// top_k(0.01)                       536     1164   24.8   0.0970 94.26 +- 0.42      7.1    24.4     159.4     3.2
// ef(random_k(0.1))                2192     3288    8.8   0.0194 97.50 +- 0.28      7.4    12.7      95.2     5.6
// ef(qsgd<8>)                      5184    15108    1.9   0.0236 96.94 +- 0.28      7.1    41.6     184.5    22.0
// ef(power_sgd(2))                 1912     2868   10.1   0.0239 97.04 +- 0.16      6.9     8.7     145.0    13.0
// ef(top_k(0.01)|qsgd<8>)           416      804   35.9   0.0229 97.22 +- 0.00      7.2    32.0     142.5     3.8
// ef(random_k(0.1)|cast<half>)     1248     1872   15.4   0.0193 97.22 +- 0.00      7.7    17.3     212.8     6.5
// payload: all bytes that a rank passes to its communicator. sent: the bytes that leave it, 2(N-1)/N payload for a sum,
// (N-1) payload for an all-gather, (N-1)/N payload for scattered parts, payload for pairwise messages. ratio: dense
// float's bytes sent over these. +-: deviation over the seeds. Times are means over the steps, by the wall clock, of 4
// threads that share this machine's cores; exchange includes waiting for each other.
//
//                               compute  encode  decode     us per step at this many Gbit/s
// codec                              us      us      us        1       10       25      100
// identity                          6.6     0.3     0.7    358.5    150.7    136.8    129.9
// cast<bfloat16>                    6.4     1.9     0.4    245.9    140.4    133.4    129.8
// ef(scaled_sign)                   6.9    28.2    17.9    191.2    174.9    173.8    173.2
// ef(top_k(0.01))                   6.8    31.4     3.3    171.2    162.5    161.9    161.6
// top_k(0.01)                       6.9    24.4     2.9    163.9    155.2    154.6    154.3
// ef(random_k(0.1))                 6.8    11.7     5.2    170.1    146.4    144.8    144.0
// ef(qsgd<8>)                       6.8    40.0    21.1    308.7    200.0    192.7    189.1
// ef(power_sgd(2))                  6.6     8.1    12.7    170.4    149.7    148.4    147.7
// ef(top_k(0.01)|qsgd<8>)           6.8    31.6     3.4    168.7    162.6    162.2    162.0
// ef(random_k(0.1)|cast<half>)      6.9    15.5     5.8    163.2    149.7    148.8    148.4
// compute, encode and decode: alone on one thread, the median of 101 steps.
// step: their sum + bytes sent / rate + 2(N-1) 20 us of latency, once per step; nothing overlaps.
#include "command.hpp"

int main(int argc, char** argv) { return train::command(argc, argv, stdout, stderr); }
