# benchmarks/choosing/break_even.gp — the link rate below which a codec is faster, over ranks.
#
#   gnuplot -c break_even.gp FROM.csv TO.svg
set datafile separator comma
set datafile missing NaN
methods = "qsgd<8>,all-gather qsgd<8>,two_shot qsgd<8>,ring qsgd<4>,all-gather qsgd<4>,two_shot " \
  ."scaled_sign,all-gather scaled_sign,two_shot top_k,all-gather top_k,two_shot random_k,sum power_sgd,sum"
colours = "#1f77b4 #1f77b4 #1f77b4 #d62728 #d62728 #2ca02c #2ca02c #ff7f0e #ff7f0e #17becf #8c564b"
method(i) = word(methods, i)
has(i, exchange) = strstrt(method(i), ','.exchange) > 0
dash(i) = has(i, 'two_shot') ? 2 : has(i, 'ring') ? 3 : 1
below(i, of, at) = stringcolumn(1) eq of && stringcolumn(3).','.stringcolumn(4) eq method(i) && column(at) > 0 \
  ? column(at) / 1e3 : NaN

set terminal svg size 1150, 430 noenhanced font 'sans,12' background 'white'
set output ARG2
set logscale xy
set xtics (2, 4, 8, 16, 64)
set xrange [2:64]
set yrange [0.8:150]  # links that are faster were not measured
set grid
set xlabel 'ranks'
set key bottom left Left reverse samplen 1.5 font 'sans,10'
set multiplot layout 1, 3 title 'Predicted: the Gbit/s below which a step is faster; dashed: two_shot, dotted: ring'
do for [panel in 'ResNet-50,8 ResNet-50,9 ResNet-20,9'] {
  model = panel[1:9]
  at = panel[11:11] + 0
  set title model.' against '.(at == 8 ? 'dense float' : 'dense bfloat16')
  plot for [i = 1:words(methods)] ARG1 skip 1 using 2:(below(i, model, at)) with linespoints pointtype 7 \
    pointsize 0.4 linewidth 2 linecolor rgb word(colours, i) dashtype dash(i) title (dash(i) == 1 ? method(i) : '')
  set key off
}
unset multiplot
