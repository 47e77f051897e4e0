package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report prints the results, and writes results.md and the plots into a folder. A fault of a
// contender (a lock held twice, a waiter never woken, an error) is shown in its row, and once more in
// a list.
func report(folder string, results []*result, a *arena, took time.Duration, complete bool) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\nMeasured %s in %v: %s, %d CPUs, %s/%s, %s, Redis %s. Everything ran on this one machine, interleaved: within a row of tables "+
		"figures may be compared, with other machines' they may not.\n\n",
		time.Now().Format("2 January 2006"), took.Round(time.Second), processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), a.version)
	if !complete {
		b.WriteString("**The run was ended early: some measurements are missing.**\n\n")
	}
	b.WriteString("## Failures\n\nOverlaps are locks that did not exclude; a waiter that was never woken still waited though no client " +
		"had entered for a second. docs/peers.md has the known faults of each peer.\n\n")
	for _, r := range results {
		if what := r.faults(); what != "none" {
			if r.stats.FirstFailure != "" {
				what += fmt.Sprintf(" (the first said: %s)", r.stats.FirstFailure)
			}
			fmt.Fprintf(&b, "- **%s** in %s, %s, %v: %s\n", r.contender, r.scenario, r.cell.setting, r.cell.network, what)
		}
	}
	b.WriteByte('\n')
	for _, p := range plots {
		drawn, err := p.draw(folder, results)
		if err != nil {
			return err
		}
		if drawn {
			fmt.Fprintf(&b, "![%s](%s)\n\n", strings.TrimSuffix(p.file, ".svg"), p.file)
		}
	}
	for name := ""; len(results) > 0; {
		s, cell := results[0].scenario, results[0].cell
		if name != s.name {
			name = s.name
			fmt.Fprintf(&b, "## %s\n\n%s\n\n", s.title, s.asks)
		}
		n := 1
		for n < len(results) && results[n].scenario.name == s.name && results[n].cell.setting == cell.setting && results[n].cell.network == cell.network {
			n++
		}
		fmt.Fprintf(&b, "### %s, %v (round trip %s)\n\n", cell.setting, cell.network, short(results[0].roundTrip))
		table(&b, s, results[:n])
		results = results[n:]
	}
	b.WriteString("## The contenders\n\n" + row("", "how", "waits by") + row("---", "---", "---"))
	for _, c := range contenders() {
		b.WriteString(row(c.name, c.about, cmp.Or(c.wakes, "does not wait")))
	}
	fmt.Println(b.String())
	return os.WriteFile(filepath.Join(folder, "results.md"), []byte(b.String()), 0o644)
}

// table writes a cell's table, and names those without figures below it.
func table(b *strings.Builder, s scenario, results []*result) {
	var shown []string
	for name := range strings.SplitSeq(s.columns, ", ") {
		shown = append(shown, name)
	}
	head := []string{""}
	for _, name := range shown {
		head = append(head, columns[name].title)
	}
	b.WriteString(row(head...) + row(slices.Repeat([]string{"---"}, len(head))...))
	absent := make(map[string][]string)
	for _, r := range results {
		if r.rounds == 0 {
			why := cmp.Or(r.skipped, r.failed, "not measured: the run was ended")
			absent[why] = append(absent[why], r.contender.name)
			continue
		}
		cells := []string{r.contender.name}
		for _, name := range shown {
			cells = append(cells, columns[name].value(r))
		}
		b.WriteString(row(cells...))
	}
	b.WriteByte('\n')
	for _, why := range slices.Sorted(maps.Keys(absent)) {
		fmt.Fprintf(b, "Not here (%s): %s.\n", why, strings.Join(absent[why], ", "))
	}
	b.WriteByte('\n')
}

// columns are the figures by the names that scenarios ask for them. Those of a section are of all
// clients together.
var columns = map[string]struct {
	title string
	value func(*result) string
}{
	"pair":   {"lock+unlock p50, p99", func(r *result) string { return quantiles(&r.stats.Pair) }},
	"wait":   {"wait p50, p99", func(r *result) string { return quantiles(&r.stats.Wait) }},
	"nested": {"each p50, p99", func(r *result) string { return quantiles(&r.stats.Nested) }},
	"handover": {"hand-over p50, p99, p50 in round trips", func(r *result) string {
		return fmt.Sprintf("%s, %s", quantiles(&r.stats.Handover), decimals(r.stats.Handover.at(.5).Seconds()/r.roundTrip.Seconds()))
	}},
	"rate":        {"a second", func(r *result) string { return count(int(r.rate())) }},
	"sent":        {"commands", func(r *result) string { return decimals(float64(r.sent) / float64(r.stats.Sections)) }},
	"client cpu":  {"client CPU", func(r *result) string { return r.each(r.stats.CPU) }},
	"redis cpu":   {"Redis CPU", func(r *result) string { return r.each(r.redisCPU) }},
	"redis time":  {"Redis' time", func(r *result) string { return r.each(r.served) }},
	"rounds":      {"wait p99 in rounds", func(r *result) string { return decimals(r.waitInRounds()) }},
	"share":       {"process share", func(r *result) string { return decimals(float64(r.fewest) / float64(r.most)) }},
	"client core": {"client CPU", func(r *result) string { return r.core(r.stats.CPU) }},
	"redis core":  {"Redis CPU", func(r *result) string { return r.core(r.redisCPU) }},
	"renewals":    {"commands a second", func(r *result) string { return count(int(float64(r.sent) / r.elapsed.Seconds())) }},
	"memory":      {"bytes a lock", func(r *result) string { return count(int(r.stats.Bytes)) }},
	"lost":        {"lost", func(r *result) string { return count(int(max(r.gone, r.stats.Lost))) }},
	"faults":      {"faults", (*result).faults},
}

// rate is sections a second.
func (r *result) rate() float64 { return float64(r.stats.Sections) / max(r.elapsed.Seconds(), 1e-9) }

// waitInRounds is the 99th percentile of the wait, in rounds: a round is the time of as many sections
// as there are goroutines, and so the wait of a goroutine that lets every other one pass once.
func (r *result) waitInRounds() float64 {
	return r.stats.Wait.at(.99).Seconds() * r.rate() / float64(r.cell.job.Processes*r.cell.job.Goroutines)
}

func (r *result) each(total time.Duration) string {
	if r.stats.Sections == 0 {
		return "-"
	}
	return short(total / time.Duration(r.stats.Sections))
}

func (r *result) core(used time.Duration) string {
	return fmt.Sprintf("%.2f %%", 100*used.Seconds()/r.elapsed.Seconds())
}

// faults lists the failures.
func (r *result) faults() string {
	var all []string
	for _, f := range []struct {
		n    int64
		what string
	}{
		{r.stats.Overlaps, "OVERLAPS"}, {r.stats.Stuck, "never woken"}, {r.stats.Failures, "failures"},
		{r.stats.Cut, "still waiting"}, {r.stats.Kept, "not given back"},
	} {
		if f.n > 0 {
			all = append(all, count(int(f.n))+" "+f.what)
		}
	}
	if r.failed != "" {
		all = append(all, "ended: "+r.failed)
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

func quantiles(h *histogram) string {
	if h.count() == 0 {
		return "-"
	}
	return short(h.at(.5)) + ", " + short(h.at(.99))
}

// short writes three digits.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		switch {
		case d >= 100*unit:
			return d.Round(unit).String()
		case d >= 10*unit:
			return d.Round(unit / 10).String()
		case d >= unit:
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// decimals writes two of them.
func decimals(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// processor returns Linux's name of the CPU.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// A plot shows the rate of all contenders in the settings of a scenario, as bars.
type plot struct {
	file, scenario string
	network        distance
	title          string
	settings       []string
}

var plots = []plot{
	{"four-processes.svg", "four-processes", near, "4 processes with 32 goroutines each, 50 µs sections, round trip 0.5 ms", []string{"4 x 32, 50µs sections"}},
	{"fleet.svg", "fleet", near, "Processes with one goroutine each, 1 ms sections, round trip 0.5 ms", fleetSettings()},
}

func fleetSettings() (all []string) {
	for _, n := range fleetSizes {
		all = append(all, fleetSetting(n, time.Millisecond))
	}
	return all
}

// draw writes the plot as SVG, if there are results for it: a group of bars for each setting, in the
// order of the first, where the fastest is on top.
func (p plot) draw(folder string, results []*result) (drawn bool, err error) {
	const height, left, width, colours = 18, 130.0, 440.0, "#0072b2 #d55e00 #009e73 #e69f00 #cc79a7 #56b4e9 #000000 #999999"
	var shown []*result
	most, colour := 0.0, make(map[string]string)
	for _, setting := range p.settings {
		group := slices.DeleteFunc(slices.Clone(results), func(r *result) bool {
			return r.scenario.name != p.scenario || r.cell.setting != setting || r.cell.network != p.network || r.stats.Sections == 0
		})
		slices.SortFunc(group, func(x, y *result) int { return cmp.Compare(y.rate(), x.rate()) })
		for _, r := range group {
			most = max(most, r.rate())
			if colour[r.contender.name] == "" {
				colour[r.contender.name] = strings.Fields(colours)[len(colour)%8]
			}
		}
		shown = append(shown, group...)
	}
	if len(shown) == 0 {
		return false, nil
	}
	var b strings.Builder
	y := 32
	text := func(x float64, style, what string) {
		fmt.Fprintf(&b, "<text x=\"%.0f\" y=\"%d\" %s>%s</text>\n", x, y, style, what)
	}
	text(8, `font-weight="bold"`, p.title+": sections a second")
	for i, r := range shown {
		if i == 0 || r.cell.setting != shown[i-1].cell.setting {
			y += height * 3 / 2
			text(8, `fill="#555"`, r.cell.setting)
		}
		y += height
		text(left-6, `text-anchor="end"`, r.contender.name)
		long := width * r.rate() / most
		fmt.Fprintf(&b, "<rect x=\"%.0f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", left, y-12, long, height-4, colour[r.contender.name])
		text(left+long+5, "", count(int(r.rate())))
	}
	svg := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 %d\" font-family=\"Liberation Sans,Arial,Helvetica,sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", y+height, b.String())
	return true, os.WriteFile(filepath.Join(folder, p.file), []byte(svg), 0o644)
}
