package table

import "time"

// Span contains the first and the last hour of a cluster. It is zero if the cluster has no hours.
type Span struct{ First, Last time.Time }

// Extend returns a span that includes an hour.
func (s Span) Extend(hour time.Time) Span {
	hour = hour.UTC()
	if s.First.IsZero() || hour.Before(s.First) {
		s.First = hour
	}
	if hour.After(s.Last) {
		s.Last = hour
	}
	return s
}
