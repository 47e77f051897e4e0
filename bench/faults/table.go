package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// text is the results in Markdown: a row for each form, and a column for each fault.
func text(results []result, lease time.Duration, absent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Locks under faults\n\nMade by `cd bench && go run ./faults -lease %v`: processes increment one value under a lock of that lease, with %v between\n"+
		"the read and the write. *Lost* are writes that another holder has overwritten, of all. Behind it stand the writes a second before\n"+
		"the faults and under them, the longest time without one, and how many processes *get no turn* in the %v after the faults.\n\n", lease, think, lease+grace)
	for _, f := range sorts {
		fmt.Fprintf(&b, "- *%s*: %s\n", f.name, f.about)
	}
	if absent != "" {
		fmt.Fprintf(&b, "\nLeft out: %s.\n", absent)
	}
	b.WriteString("\n| library | form |")
	for _, f := range sorts {
		fmt.Fprintf(&b, " %s |", f.name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(sorts)) + "\n")
	for _, form := range forms {
		fmt.Fprintf(&b, "| %s | %s |", form.library, form.text)
		for _, f := range sorts {
			i := slices.IndexFunc(results, func(r result) bool { return r.Fault == f.name && r.Library == form.library && r.Form == form.text })
			if i < 0 {
				b.WriteString(" |")
				continue
			}
			fmt.Fprintf(&b, " %s |", results[i].cell())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r result) cell() string {
	text := fmt.Sprintf("kept %d", r.Writes)
	if r.Lost > 0 {
		text = fmt.Sprintf("**lost %d** of %d", r.Lost, r.Writes)
	}
	text += fmt.Sprintf("; %.0f, %.0f/s, %.1f s", r.Before, r.Under, r.Pause)
	if r.Still > 0 {
		text += fmt.Sprintf(", **%d get no turn**", r.Still)
	}
	return text
}
