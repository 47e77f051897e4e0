package panels

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// steps returns the values that an axis from zero has a line at, the last of them at or above
// the greatest value. Neighbours differ by 1, 2 or 5 times a power of ten.
func steps(most float64) []float64 {
	if most <= 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		most = 1
	}
	const wanted = 3
	power := math.Pow(10, math.Floor(math.Log10(most/wanted)))
	step := power
	for _, times := range []float64{2, 5, 10} {
		if most/step > wanted+1 {
			step = times * power
		}
	}
	all := []float64{0}
	for i := 1; all[len(all)-1] < most*(1-1e-9); i++ {
		all = append(all, float64(i)*step)
	}
	return all
}

// format returns a value with a unit of Grafana.
func format(value float64, unit string) string {
	short := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch {
	case math.IsNaN(value):
		return "–"
	case unit == "percentunit":
		return short(100*value) + " %"
	case unit == "s" && value == 0:
		return "0 s"
	case unit == "s" && value < 1e-3:
		return short(value*1e6) + " µs"
	case unit == "s" && value < 1:
		return short(value*1e3) + " ms"
	case unit == "s":
		return short(value) + " s"
	case unit == "ops":
		return format(value, "") + "/s"
	case math.Abs(value) >= 1000:
		return short(value/1000) + " k"
	}
	return short(value)
}

// clock returns how far into the span a time is.
func clock(d time.Duration) string {
	seconds := int(math.Round(d.Seconds()))
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// figure returns a value as the panel shows it.
func (p *Panel) figure(value float64) string {
	shown := p.FieldConfig.Defaults
	if shown.Decimals != nil {
		scale := math.Pow10(*shown.Decimals)
		value = math.Round(value*scale) / scale
	}
	return format(value, shown.Unit)
}

// colour returns that of the last threshold that a value has reached.
func (p *Panel) colour(value float64) string {
	reached := named["green"]
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			reached = named[step.Color]
		}
	}
	return reached
}

// last returns the value at the end of the line, NaN if there is none.
func (l Line) last() float64 {
	if len(l.Points) == 0 {
		return math.NaN()
	}
	return l.Points[len(l.Points)-1].Value
}
