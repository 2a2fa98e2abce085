package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

type kubectl struct {
	command []string // path of kubectl and the arguments before the request
	flags   []string
}

const (
	// maxDocument is the maximum size of a document in bytes. A page with 500 Nodes has a few
	// megabytes.
	maxDocument = 64 << 20
	// maxError is the maximum size of kubectl's error output in bytes.
	maxError = 1 << 10
)

func (k kubectl) get(ctx context.Context, path string) ([]byte, error) {
	args := slices.Concat(k.command[1:], []string{"get", "--raw", path}, k.flags)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.command[0], args...) //nolint:gosec // the user's own kubectl
	cmd.WaitDelay = time.Second                            // a script's child processes may keep its output open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", k.command[0], err)
	}
	text, err := io.ReadAll(io.LimitReader(out, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("the document has more than %d MiB", maxDocument>>20)
	}
	if err != nil {
		cancel() // ends kubectl
	}
	if waited := cmd.Wait(); err == nil && waited != nil {
		err = describe(waited, stderr.String())
	}
	return text, err
}

func describe(err error, stderr string) error {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if last == "" {
		return fmt.Errorf("kubectl: %w", err)
	}
	if len(last) > maxError {
		last = last[:maxError]
	}
	return errors.New(last)
}
