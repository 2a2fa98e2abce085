package main

import (
	"fmt"
	"time"
)

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

func kilobytes(n uint64) string { return thousands(int(n/1000)) + " kB" }

func ratio(a, b time.Duration) string {
	if b == 0 {
		return ""
	}
	r := float64(a) / float64(b)
	if r < 1 {
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.1f", r)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
