module sinks

go 1.22
