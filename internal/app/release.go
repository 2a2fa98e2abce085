package app

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/state"
)

// ReleaseConfig is the configuration of the release command.
type ReleaseConfig struct {
	GPU string
	For time.Duration
	// By is the user who requested the release.
	By string
}

const (
	maxRelease     = 24 * time.Hour
	releaseTimeout = 20 * time.Second
	releasePoll    = 200 * time.Millisecond
)

// ReleaseFlags returns the flag set of the release command.
func ReleaseFlags() (*flag.FlagSet, *Config) {
	c := &Config{Command: ReleaseCommand}
	fs := flag.NewFlagSet("gpuledger "+ReleaseCommand, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&c.Release.GPU, "gpu", "", "the `GPU`: its UUID, serial number or PCI address; without this flag, the whole driver is released")
	fs.DurationVar(&c.Release.For, "for", 5*time.Minute, "`time` until the exporter opens the driver or the GPU again, at most 24h; 0 ends a release")
	fs.StringVar(&c.StatePath, "state.path", auto, "`directory` of the exporter's state file, with the same value as in the exporter's flags")
	return fs, c
}

func parseRelease(args []string, getenv func(string) string) (Config, error) {
	flags, c := ReleaseFlags()
	if err := parse(flags, args); err != nil {
		return *c, err
	}
	c.Release.By = cmp.Or(getenv("SUDO_USER"), getenv("USER"), "an unnamed user")
	switch {
	case c.Release.For < 0 || c.Release.For > maxRelease:
		return *c, fmt.Errorf("--for=%v: must be 0 to %v", c.Release.For, maxRelease)
	case c.StatePath != auto && !filepath.IsAbs(c.StatePath):
		return *c, fmt.Errorf("--state.path=%s: must be an absolute path", c.StatePath)
	}
	return *c, nil
}

// release is the content of the release file in the state directory. The command writes the file
// and the exporter adds the result. Only the exporter's user and root can write to this directory.
type release struct {
	GPU   string    `json:"gpu,omitempty"`
	Until time.Time `json:"until"`
	By    string    `json:"by"`
	// Done is set while the exporter has closed all files of the driver. If only a GPU is released, Done is set while
	// all files of this GPU are closed.
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// check returns an error if the release is invalid. It also rejects names that are too long or contain characters that
// must be quoted.
func (r *release) check() error {
	for _, text := range []string{r.GPU, r.By} {
		if len(text) > 100 || strconv.Quote(text) != `"`+text+`"` {
			return fmt.Errorf("invalid name %.100q", text)
		}
	}
	if time.Until(r.Until) > maxRelease {
		return fmt.Errorf("until %v: must be within %v", r.Until, maxRelease)
	}
	return nil
}

func (r *release) isIn(dir *state.Dir) bool {
	var now release
	return dir.LoadTable(state.Release, &now, now.check) == nil && now.GPU == r.GPU && now.Until.Equal(r.Until)
}

// ReleaseDriver makes a running exporter release the driver, and waits until the driver is released. The state
// directory in the configuration determines the exporter.
func ReleaseDriver(ctx context.Context, cfg Config, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	dir, err := state.Share(cfg.StatePath)
	if err != nil {
		return err
	}
	defer dir.Close()
	if !dir.Held() {
		return fmt.Errorf("no running exporter uses the state directory %s (--state.path)", cfg.StatePath)
	}
	if cfg.Release.For == 0 {
		if err := dir.RemoveTable(state.Release); err != nil {
			return err
		}
		fmt.Fprintln(out, "the exporter opens the driver again")
		return nil
	}
	request := release{GPU: cfg.Release.GPU, Until: time.Now().Add(cfg.Release.For), By: cfg.Release.By}
	if err := request.check(); err != nil {
		return err
	}
	if err := dir.SaveTable(state.Release, &request); err != nil {
		return err
	}
	answer, err := awaitRelease(ctx, dir, request)
	switch {
	case err != nil:
		return err
	case answer.Error != "":
		return errors.Join(errors.New(answer.Error), dir.RemoveTable(state.Release))
	}
	fmt.Fprintf(out, "released until %s; gpuledger release --for=0 ends it\n", answer.Until.Local().Format(time.TimeOnly))
	return nil
}

func awaitRelease(ctx context.Context, dir *state.Dir, request release) (release, error) {
	for {
		var answer release
		err := dir.LoadTable(state.Release, &answer, answer.check)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return answer, errors.New("the request was removed: another command ended it, or the exporter runs as another user and cannot read the request")
		case err != nil:
			return answer, err
		case !answer.Until.Equal(request.Until):
			return answer, errors.New("another release replaced this one")
		case answer.Done || answer.Error != "":
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return answer, fmt.Errorf("not released within %v: a driver call may hang. The request expires at %s",
				releaseTimeout, request.Until.Local().Format(time.TimeOnly))
		case <-time.After(releasePoll):
		}
	}
}
