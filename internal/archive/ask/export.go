package ask

import (
	"context"
	"errors"

	"github.com/gpuledger/gpuledger/internal/archive/print"
)

func (q *question) export(ctx context.Context) (print.Answer, error) {
	return print.Answer{}, errors.New("todo")
}
