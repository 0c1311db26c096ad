# benchmarks/grace/throughput.gp — predicted steps per second over link rates, relative to dense float and bfloat16.
# All lines are dashed, because no step over a link was measured.
#
#   gnuplot -c throughput.gp FROM.csv TO.svg
set datafile separator comma
stats ARG1 skip 1 using (ranks = $4, compute = $5, $9) name 'rate' nooutput
stats ARG1 skip 1 using ($9 == rate_min ? 0 : NaN) name 'methods' nooutput
n = methods_records
each = rate_records / n  # rows are ordered by method, then by rate
array family[n]
array method[n]
do for [i = 1:n] {
  stats ARG1 skip 1 every ::each * (i - 1)::each * (i - 1) using (method[i] = strcol(1), family[i] = strcol(2), 0) \
    nooutput
}
curve(i, column, colour) = sprintf(", ARG1 skip 1 every ::%d::%d using 9:%d with lines linewidth 2 " \
  ."linecolor rgb '%s' dashtype %s title method[%d]", each * (i - 1), each * i - 1, column, colour, \
  family[i] eq 'none' ? "'.'" : "'-'", i)
colours = '#1f77b4 #d62728 #2ca02c #ff7f0e #9467bd #17becf #8c564b #e377c2 #bcbd22'

set terminal svg size 1150, 900 noenhanced font 'sans,12' background 'white'
set output ARG2
set logscale xy
set grid
set xtics ('0.1' 0.1, '1' 1, '10' 10, '100' 100)
set key bottom left Left reverse samplen 1.5 maxrows 6
set xrange [rate_min:rate_max]
set yrange [0.0005:100]
set ytics ('0.01' 0.01, '0.1' 0.1, '1' 1, '10' 10, '100' 100)
set multiplot layout 2, 3 title sprintf("Predicted, not measured: steps per second of ResNet-50, %d ranks, " \
  ."%g ms of computing (assumed), encoding and decoding on one CPU thread (measured)", ranks, compute)
do for [column = 10:11] {
  if (column == 11) { set key off }
  do for [panel in 'quantization sparsification other'] {
    set title panel eq 'other' ? 'hybrid and low rank' : panel
    set xlabel column == 11 ? 'Gbit/s' : ''
    set ylabel panel eq 'quantization' ? 'predicted, over dense '.(column == 10 ? 'float' : 'bfloat16') : ''
    curves = ''
    used = 0
    do for [i = 1:n] {
      if (family[i] eq 'none') {
        curves = curves.curve(i, column, method[i] eq 'none' ? '#888888' : '#000000')
      } else {
        if (family[i] eq panel || (panel eq 'other' && family[i] ne 'quantization' && family[i] ne 'sparsification')) {
          used = used + 1
          curves = curves.curve(i, column, word(colours, used))
        }
      }
    }
    eval 'plot '.curves[3:]
  }
}
unset multiplot
