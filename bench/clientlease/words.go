package main

import (
	"fmt"
	"time"
)

// number writes a count with its thousands apart.
func number(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func percent(x float64) string {
	if x < 0.0001 {
		return fmt.Sprintf("%.4f %%", 100*x)
	}
	return fmt.Sprintf("%.2f %%", 100*x)
}

func bytes(x float64) string {
	if x < 1e9 {
		return fmt.Sprintf("%.0f MB", x/1e6)
	}
	return fmt.Sprintf("%.1f GB", x/1e9)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
