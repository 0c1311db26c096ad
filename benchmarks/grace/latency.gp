# benchmarks/grace/latency.gp — one panel per method: compressing and decompressing over the size of the tensor.
#
#   gnuplot -c latency.gp FROM.csv TO.svg
set datafile separator comma
stats ARG1 skip 1 using 4 name 'log2n' nooutput
stats ARG1 skip 1 using ($4 == log2n_min ? 0 : NaN) name 'methods' nooutput
n = methods_records  # rows are ordered by size, then by method
columns = 6
rows = (n + columns - 1) / columns

set terminal svg size 1150, 140 * rows + 100 noenhanced font 'sans,11' background 'white'
set output ARG2
set logscale xy
set xtics ('2^14' 2.0**14, '2^18' 2.0**18, '2^22' 2.0**22, '2^26' 2.0**26)
set xrange [2.0**log2n_min / 1.5:2.0**log2n_max * 1.5]
set yrange [0.02:2000]
set ytics ('1' 1, '10' 10, '100' 100)
set grid
set key off
set multiplot layout rows, columns margins 0.04, 0.98, 0.05, 1 - 70.0 / (140 * rows + 100) \
  spacing 0.03, 48.0 / (140 * rows + 100) \
  title "Times over that of copying the tensor by memcpy, over its elements (float)\n" \
  .'blue, filled: compress; orange, open: decompress'
do for [i = 0:n - 1] {
  stats ARG1 skip 1 every ::i::i using (title_text = strcol(1), 1) nooutput
  set title title_text offset 0, -0.7
  plot 1 with lines linecolor rgb '#888888', \
    ARG1 skip 1 every n::i using (2.0**$4):5 with linespoints linecolor rgb '#1f77b4' pointtype 7 pointsize 0.5, \
    ARG1 skip 1 every n::i using (2.0**$4):6 with linespoints linecolor rgb '#ff7f0e' pointtype 6 pointsize 0.5
}
unset multiplot
