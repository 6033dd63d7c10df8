/* The system's Python with Global Arrays linked in: Debian has that as a static library only. */
int Py_BytesMain(int, char **);

int main(int argc, char **argv) {
    return Py_BytesMain(argc, argv);
}
