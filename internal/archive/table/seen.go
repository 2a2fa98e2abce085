package table

import "time"

// Seen is a GPU of a cluster in an hour, with its first and its last scrape.
type Seen struct {
	Cluster, Node, UUID, Serial string
	First, Last                 time.Time
}

// SeenIn returns the scraped GPUs of an hour.
func SeenIn(h *Hour) (all []Seen) {
	for i := range h.GPUs {
		if g := &h.GPUs[i]; g.Scrapes > 0 {
			all = append(all, Seen{h.Cluster, g.Node, g.UUID, g.Serial, g.First, g.Last})
		}
	}
	return all
}

// Twice reports whether a GPU was scraped in two clusters at the same time, which is impossible for
// one board. A board that moves is scraped in the two clusters at different times.
func (s *Seen) Twice(other *Seen) bool {
	return s.UUID == other.UUID && s.Cluster != other.Cluster && !s.Last.Before(other.First) && !other.Last.Before(s.First)
}
