package ask

import (
	"io"
	"os"
	"time"
)

// Terminal is the input and the output of a command.
type Terminal struct {
	In       io.Reader // contains the names if a name is "-"
	Out, Err io.Writer
	// Colour adds colours to headings and notices. Progress shows the current step. An empty text hides the step.
	Colour   bool
	Progress func(text string)
	// Program is the name of the program. Error lines begin with this name.
	Program string
}

// Process returns the terminal of the process. Colours are off if $NO_COLOR is set.
func Process(program string, colour bool, progress func(string)) Terminal {
	return Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Colour: colour && os.Getenv("NO_COLOR") == "", Progress: progress, Program: program}
}

// slow is the time after which progress is shown.
const slow = time.Second

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
