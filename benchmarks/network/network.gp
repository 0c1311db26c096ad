# benchmarks/network/network.gp — steps per second relative to dense float, one panel per rate.
#
#   gnuplot -c network.gp FROM.csv TO.svg
set datafile separator comma
set datafile missing NaN
methods = "bfloat16,sum qsgd<8>,all-gather qsgd<8>,two_shot qsgd<8>,ring qsgd<4>,all-gather qsgd<4>,two_shot " \
  ."scaled_sign,all-gather scaled_sign,two_shot top_k,all-gather top_k,two_shot top_k,ok_top_k top_k,g_top_k " \
  ."top_k|qsgd<8>,all-gather top_k|qsgd<8>,two_shot random_k,sum power_sgd,sum"
colours = "#000000 #1f77b4 #1f77b4 #1f77b4 #d62728 #d62728 #2ca02c #2ca02c #ff7f0e #ff7f0e #ff7f0e #ff7f0e " \
  ."#9467bd #9467bd #17becf #8c564b"
method(i) = word(methods, i)
has(i, exchange) = strstrt(method(i), ','.exchange) > 0
dash(i) = has(i, 'two_shot') ? 2 : has(i, 'ring') || has(i, 'ok_top_k') ? 3 : has(i, 'g_top_k') ? 4 : 1

# The row of dense float is the first of its workload; models have no size.
is_tensor(workload) = strlen(workload) > 0 && substr(workload, 1, 1) >= '0' && substr(workload, 1, 1) <= '9'
dense = NaN
over_dense(i) = (dense = stringcolumn(5) eq 'float' ? column(9) : dense, \
  column(1) == rate && is_tensor(stringcolumn(3)) && stringcolumn(5).','.stringcolumn(6) eq method(i) \
    ? dense / column(9) : NaN)

set terminal svg size 1150, 430 noenhanced font 'sans,12' background 'white'
set output ARG2
set logscale xy
set xtics ('64' 64, '256' 256, '1024' 1024, '4096' 4096, '16384' 16384, '65536' 65536)
set grid
set yrange [0.008:300]  # room for the key
set xlabel 'KiB of floats'
set key bottom left Left reverse samplen 1.5
set multiplot layout 1, 3 title 'Steps a second over those of dense float, 4 ranks; ' \
  .'dashed: two_shot, dotted: ring and ok_top_k, both: g_top_k'
do for [r in '10 100 1000'] {
  rate = r + 0
  set title sprintf('%g Mbit/s', rate)
  plot for [i = 1:words(methods)] ARG1 skip 1 using 3:(over_dense(i)) with linespoints pointtype 7 pointsize 0.4 \
    linewidth 2 linecolor rgb word(colours, i) dashtype dash(i) \
    title (dash(i) == 1 ? method(i) : '')
  set key off
}
unset multiplot
