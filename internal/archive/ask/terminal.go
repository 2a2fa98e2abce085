package ask

import (
	"io"
	"os"
	"time"
)

// Terminal is the destination for answers.
type Terminal struct {
	In       io.Reader // contains the names if a name is "-"
	Out, Err io.Writer
	// Colour marks headings and notices. Progress shows the current step, or hides it if the text is
	// empty.
	Colour   bool
	Progress func(text string)
	// Program is the name of the program, which begins each error line.
	Program string
}

// Process returns the terminal of the process. Colours are off if $NO_COLOR is set.
func Process(program string, colour bool, progress func(string)) Terminal {
	return Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Colour: colour && os.Getenv("NO_COLOR") == "", Progress: progress, Program: program}
}

// slow is the time after which progress is shown.
const slow = time.Second

// slowProgress returns a function that shows the progress of a slow question, and a function that
// hides the progress.
func (t Terminal) slowProgress() (show func(text string), hide func()) {
	if t.Progress == nil {
		return func(string) {}, func() {}
	}
	began := time.Now()
	return func(text string) {
		if time.Since(began) >= slow {
			t.Progress(text)
		}
	}, func() { t.Progress("") }
}
