# benchmarks/grace/quality.gp — one row per method: accuracy, data volume and predicted throughput.
#
#   gnuplot -c quality.gp FROM.csv TO.svg
set datafile separator comma
stats ARG1 skip 1 using (title_text = strcol(4), ranks = $5, seeds = $6, $7) name 'accuracy' nooutput
n = accuracy_records

set terminal svg size 1150, 24 * n + 130 noenhanced font 'sans,13' background 'white'
set output ARG2
set yrange [-n + 0.5:0.5]
set grid
set key off
set multiplot layout 1, 3 margins 0.13, 0.98, 70.0 / (24 * n + 130), 1 - 40.0 / (24 * n + 130) spacing 0.025, 0 \
  title sprintf('%s, %d ranks, mean of %d seeds', title_text, ranks, seeds)
set xlabel 'test accuracy (%), and its deviation'
plot ARG1 skip 1 using (100 * $7):(-$0):(100 * $8):ytic(1) with xerrorbars linecolor rgb '#1f77b4' pointtype 7
set for [i = 0:n - 1] ytics ('' -i)
set logscale x
set xlabel 'data volume over that of dense float'
plot ARG1 skip 1 using 9:(-$0) with points linecolor rgb '#1f77b4' pointtype 7
set key top right Left reverse samplen 1 opaque box linecolor rgb '#cccccc'
set xrange [*:30]
set xlabel 'predicted throughput over that of dense float'
plot ARG1 skip 1 using 10:(-$0) with points linecolor rgb '#1f77b4' pointtype 7 title '1 Gbit/s', \
  ARG1 skip 1 using 11:(-$0) with points linecolor rgb '#ff7f0e' pointtype 6 title '10 Gbit/s', \
  ARG1 skip 1 using 13:(-$0) with points linecolor rgb '#2ca02c' pointtype 8 title '100 Gbit/s'
unset multiplot
