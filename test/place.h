/* Room for the future of any call. */
#ifndef TEST_PLACE_H
#define TEST_PLACE_H

#include <coir.h>

union place {
    coir_wait_op wait;
    coir_io_op io;
    coir_io_all_op io_all;
    coir_open_op open;
    coir_udp_op udp;
    coir_name_op name;
    coir_file_op file;
    coir_offload_job job;
    coir_sleep_op sleep;
    coir_condition_op condition;
    coir_signals_op signals;
    coir_call call;
};

#endif
