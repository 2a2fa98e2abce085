package archive

import (
	"fmt"
	"sync"
	"time"
)

// A back-fill of fewer hours shows no progress.
const long = 24

type progress struct {
	show func(text string) // show("") hides the line; nil if there is no terminal

	mu    sync.Mutex
	left  map[string]int // number of hours that are left, by sink
	total int            // largest number of hours that were left in this back-fill
	marks [2]mark        // the rate is measured from the first mark
}

type mark struct {
	at   time.Time
	left int
}

// The rate is measured over at least this time.
const window = time.Minute

// The line shows the progress of the sink with the most hours left.
func (p *progress) update(sink string, left int) {
	if p.show == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		p.left = make(map[string]int)
	}
	p.left[sink] = left
	for _, n := range p.left {
		left = max(left, n)
	}
	now := mark{time.Now(), left}
	switch {
	case left == 0:
		p.show("")
		p.total = 0
	case left > p.total:
		p.total, p.marks = left, [2]mark{now, now}
	}
	if left > 0 && p.total >= long {
		p.show(p.text(now))
	}
	if now.at.Sub(p.marks[1].at) >= window {
		p.marks = [2]mark{p.marks[1], now}
	}
}

func (p *progress) text(now mark) string {
	text := fmt.Sprintf("%d of %d hours", p.total-now.left, p.total)
	seconds, done := now.at.Sub(p.marks[0].at).Seconds(), float64(p.marks[0].left-now.left)
	if seconds < 1 || done <= 0 {
		return text
	}
	left := time.Duration(float64(now.left) * seconds / done * float64(time.Second))
	return fmt.Sprintf("%s, %.1f a second, %v left", text, done/seconds, left.Round(time.Second))
}
