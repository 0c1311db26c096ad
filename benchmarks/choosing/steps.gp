# benchmarks/choosing/steps.gp — the time of a step over the link rate: predicted lines and measured points.
#
#   gnuplot -c steps.gp FROM.csv NETWORK.csv TO.svg
set datafile separator comma
methods = "float,sum bfloat16,sum qsgd<8>,all-gather qsgd<8>,two_shot scaled_sign,all-gather scaled_sign,two_shot " \
  ."top_k,all-gather top_k,two_shot random_k,sum"
colours = "#7f7f7f #000000 #1f77b4 #1f77b4 #2ca02c #2ca02c #ff7f0e #ff7f0e #17becf"
n = words(methods)
method(i) = word(methods, i)
dash(i) = strstrt(method(i), 'two_shot') > 0 ? 2 : 1

# A step takes fixed + megabits / rate seconds.
array fixed[n]
array megabits[n]
is_predicted(i) = stringcolumn(1) eq model && column(2) == ranks && stringcolumn(3).','.stringcolumn(4) eq method(i)
is_measured(i) = stringcolumn(3) eq model && column(2) == ranks && stringcolumn(5).','.stringcolumn(6) eq method(i)

set terminal svg size 1150, 470 noenhanced font 'sans,12' background 'white'
set output ARG3
set logscale xy
set xtics ('10 M' 10, '100 M' 100, '1 G' 1e3, '10 G' 1e4, '100 G' 1e5)
set grid
set xlabel 'bit/s of the links'
set samples 50
set key off
set multiplot layout 1, 3 title 'Milliseconds of a step: lines are predicted, points are measured'
do for [panel in 'LSTM,4 ResNet-50,4 ResNet-50,64'] {
  model = panel[1:strstrt(panel, ',') - 1]
  ranks = panel[strstrt(panel, ',') + 1:] + 0
  do for [i = 1:n] {
    stats ARG1 skip 1 using (is_predicted(i) ? column(6) : NaN) nooutput
    fixed[i] = STATS_min
    stats ARG1 skip 1 using (is_predicted(i) ? column(7) : NaN) nooutput
    megabits[i] = STATS_min
  }
  set title sprintf('%s, %d ranks', model, ranks)
  if (ranks == 64) {
    set yrange [*:3e8]  # room for the key
    set key top right Left reverse samplen 1.5 font 'sans,9'
  }
  plot [10:100000] for [i = 1:n] 1e3 * (fixed[i] + megabits[i] / x) linewidth 2 linecolor rgb word(colours, i) dashtype dash(i) \
      title method(i), \
    for [i = 1:n] ARG2 skip 1 using 1:(is_measured(i) ? 1e3 * column(9) : NaN) with points pointtype (dash(i) == 1 ? 7 : 6) \
      pointsize 0.6 linecolor rgb word(colours, i) notitle
}
unset multiplot
